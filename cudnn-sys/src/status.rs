//! What every caller asks of a status: is it success, and of which kind is it.

use crate::cudnnStatus_t;

impl cudnnStatus_t {
    /// `true` for `CUDNN_STATUS_SUCCESS` alone.
    #[must_use]
    pub const fn is_success(self) -> bool {
        self.0 == Self::CUDNN_STATUS_SUCCESS.0
    }

    /// The category that a status belongs to: its value rounded down to a thousand, as C's `CUDNN_STATUS_CATEGORY`
    /// has it. `CUDNN_STATUS_BAD_PARAM_NULL_POINTER` (2002) gives `CUDNN_STATUS_BAD_PARAM` (2000); success and the
    /// 1000s, which have no common name, give 0 and 1000.
    #[must_use]
    pub const fn category(self) -> cudnnStatus_t {
        cudnnStatus_t(self.0 / 1000 * 1000)
    }

    /// What is left without the category: C's `CUDNN_STATUS_SPECIFIC_ERROR`.
    #[must_use]
    pub const fn specific_error(self) -> u32 {
        self.0 % 1000
    }

    /// The status itself when it is not success.
    ///
    /// # Errors
    /// Every status but `CUDNN_STATUS_SUCCESS`.
    pub const fn result(self) -> Result<(), cudnnStatus_t> {
        if self.is_success() { Ok(()) } else { Err(self) }
    }
}
