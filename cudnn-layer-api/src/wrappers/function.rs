//! Lists cuDNN's functions with the names and types of their parameters.

macro_rules! functions {
    ($($library:ident { $(
        since($($since:literal),*) deprecated($deprecated:literal)
        fn $name:ident / $variant:ident ($($argument:ident: $type:ty),*) -> $returns:ty, $doc:literal;
    )* })*) => {
        /// A cuDNN function, numbered by its position in the function table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        #[repr(u16)]
        pub enum Function { $($(
            #[doc = concat!("`", stringify!($name), "`")]
            $variant,
        )*)* }

        impl Function {
            /// All functions, in the order of the table.
            pub const ALL: &'static [Function] = &[$($(Function::$variant,)*)*];

            /// All functions' names, in the order of the table.
            pub const NAMES: &'static [&'static str] = &[$($(stringify!($name),)*)*];

            /// All functions' parameters, in the order of the table.
            const PARAMETERS: &'static [&'static [Parameter]] = &[$($(
                &[$(Parameter { name: stringify!($argument), rust_type: stringify!($type) }),*],
            )*)*];
        }
    };
}
cudnn_sys::for_each_function!(functions);

impl Function {
    /// Returns the function's C name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Function::NAMES.get(self as usize).copied().unwrap_or_default()
    }

    /// Returns the parameters in order.
    #[must_use]
    pub fn parameters(self) -> &'static [Parameter] {
        Function::PARAMETERS.get(self as usize).copied().unwrap_or_default()
    }

    /// Finds the function with this C name.
    #[must_use]
    pub fn from_name(name: &[u8]) -> Option<Function> {
        Function::ALL.iter().copied().find(|function| function.name().as_bytes() == name)
    }
}

/// A parameter of a function.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Parameter {
    /// The name in cuDNN's headers.
    pub name: &'static str,
    /// The Rust type, as written in the function table.
    pub rust_type: &'static str,
}
