//! How threads share what one of them makes, without a lock: a function's address ([`slot`]) and a value that is
//! published once ([`once`]). Both can be used under ld.so's lock. Knows nothing of cuDNN.

pub(crate) mod once;
pub(crate) mod primitives;
pub(crate) mod slot;
