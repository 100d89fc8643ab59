//! The error type of all commands.

/// The result of a command. The error is a message for a person.
pub(crate) type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;
