//! Symbol versions, as in `cudnnCreate@@libcudnn.so.9`. `versions.map` declares the version names.

/// Gives a function of this crate its symbol version. The directive must be in the same object file as the function, or
/// it has no effect: see `codegen-units` in Cargo.toml.
macro_rules! versioned {
    ($name:ident @@ $version:literal) => {
        std::arch::global_asm!(concat!(".symver ", stringify!($name), ",", stringify!($name), "@@", $version));
    };
}
pub(crate) use versioned;
