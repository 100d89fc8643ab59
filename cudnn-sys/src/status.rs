//! Methods of `cudnnStatus_t`: the C macros for the parts of a status, and the conversion to a `Result`.

use crate::cudnnStatus_t;

impl cudnnStatus_t {
    /// `true` for `CUDNN_STATUS_SUCCESS` only.
    #[must_use]
    pub const fn is_success(self) -> bool {
        self.0 == Self::CUDNN_STATUS_SUCCESS.0
    }

    /// The category of a status, its value rounded down to a thousand: C's `CUDNN_STATUS_CATEGORY`.
    /// `CUDNN_STATUS_BAD_PARAM_NULL_POINTER` (2002) gives `CUDNN_STATUS_BAD_PARAM` (2000). Success gives 0, and the
    /// statuses from 1001 to 1999 give 1000, which has no name.
    pub const fn category(self) -> cudnnStatus_t {
        cudnnStatus_t(self.0 / 1000 * 1000)
    }

    /// A status without its category: C's `CUDNN_STATUS_SPECIFIC_ERROR`.
    #[must_use]
    pub const fn specific_error(self) -> u32 {
        self.0 % 1000
    }

    /// The status of a category and a specific error: C's `CUDNN_STATUS_FULL_ERROR_CODE`.
    ///
    /// ```
    /// use cudnn_sys::cudnnStatus_t;
    /// let status = cudnnStatus_t::full_error_code(cudnnStatus_t::CUDNN_STATUS_BAD_PARAM, 2);
    /// assert_eq!(status, cudnnStatus_t::CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    /// ```
    pub const fn full_error_code(category: cudnnStatus_t, specific_error: u32) -> cudnnStatus_t {
        cudnnStatus_t(category.0.wrapping_add(specific_error))
    }

    /// `Ok` for success, else the status as an error.
    ///
    /// # Errors
    /// For every status but `CUDNN_STATUS_SUCCESS`.
    pub const fn to_result(self) -> Result<(), cudnnStatus_t> {
        if self.is_success() { Ok(()) } else { Err(self) }
    }
}
