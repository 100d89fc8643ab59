//! How threads share what one of them makes, without a lock: a function's address ([`slot`]), a value that is published
//! once ([`once`]), work of one thread at a time ([`turn`]) and work that nobody interrupts ([`gate`]). All can be used under
//! ld.so's lock. Knows nothing of cuDNN.

pub(crate) mod gate;
pub(crate) mod once;
pub(crate) mod primitives;
pub(crate) mod slot;
pub(crate) mod turn;
