//! What each backend descriptor has been given: it follows Create, SetAttribute, Finalize and Destroy. Shared by all
//! layers that need it; knows none of them, and makes no call of cuDNN.
