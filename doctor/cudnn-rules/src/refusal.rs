//! Describes why the doctor refuses a command.

use std::fmt;

use crate::plan::advice_of;
use crate::remedy::Remedy;

/// The reason for refusing a command, with help.
#[derive(Debug)]
pub struct Refusal {
    /// The failure and the reason.
    pub message: String,
    /// The remedy, or the way to succeed.
    pub help: Option<Remedy>,
}

impl Refusal {
    /// Returns a refusal without help.
    pub fn new(message: impl Into<String>) -> Refusal {
        Refusal { message: message.into(), help: None }
    }

    /// Adds help.
    pub fn help(self, help: impl Into<Remedy>) -> Refusal {
        Refusal { help: Some(help.into()), ..self }
    }
}

impl std::error::Error for Refusal {}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.message)?;
        let Some(advice) = self.help.as_ref().map(advice_of) else { return Ok(()) };
        write!(f, "\nhelp: {}", advice.text)?;
        advice.commands.iter().try_for_each(|command| write!(f, "\n      {command}"))
    }
}
