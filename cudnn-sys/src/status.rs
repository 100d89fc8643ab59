//! Methods of `cudnnStatus_t`: the C macros that split a status, and conversion to a `Result`.

use crate::cudnnStatus_t;

impl cudnnStatus_t {
    /// Returns `true` for `CUDNN_STATUS_SUCCESS`.
    #[must_use]
    pub const fn is_success(self) -> bool {
        self.0 == Self::CUDNN_STATUS_SUCCESS.0
    }

    /// Returns the category of a status by rounding the value down to a thousand, like C's `CUDNN_STATUS_CATEGORY`. For
    /// example, the category of `CUDNN_STATUS_BAD_PARAM_NULL_POINTER` (2002) is `CUDNN_STATUS_BAD_PARAM` (2000). The
    /// category of success is 0, and statuses from 1001 to 1999 have the unnamed category 1000.
    pub const fn category(self) -> cudnnStatus_t {
        cudnnStatus_t(self.0 / 1000 * 1000)
    }

    /// Returns a status without the category, like C's `CUDNN_STATUS_SPECIFIC_ERROR`.
    #[must_use]
    pub const fn specific_error(self) -> u32 {
        self.0 % 1000
    }

    /// Combines a category and a specific error to a status, like C's `CUDNN_STATUS_FULL_ERROR_CODE`.
    ///
    /// ```
    /// use cudnn_sys::cudnnStatus_t;
    /// let status = cudnnStatus_t::full_error_code(cudnnStatus_t::CUDNN_STATUS_BAD_PARAM, 2);
    /// assert_eq!(status, cudnnStatus_t::CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    /// ```
    pub const fn full_error_code(category: cudnnStatus_t, specific_error: u32) -> cudnnStatus_t {
        cudnnStatus_t(category.0.wrapping_add(specific_error))
    }

    /// Returns `Ok` for success, or the status as an error.
    ///
    /// # Errors
    /// Returns an error for every status except `CUDNN_STATUS_SUCCESS`.
    pub const fn to_result(self) -> Result<(), cudnnStatus_t> {
        if self.is_success() { Ok(()) } else { Err(self) }
    }
}
