//! Tests that the feature `warn-deprecated` enables warnings for deprecated names.
//!
//! The compiler checks this: with the feature, every use below must warn. Without the feature, none may warn.
#![deny(deprecated, unfulfilled_lint_expectations)]
#![allow(unused_imports, reason = "importing an item triggers the warning without linking")]

use cudnn_sys::cudnnStatus_t;

mod each_warns {
    #[cfg_attr(feature = "warn-deprecated", expect(deprecated, reason = "a struct"))]
    pub(crate) use cudnn_sys::cudnnConvolutionFwdAlgoPerf_t as _;
    #[cfg_attr(feature = "warn-deprecated", expect(deprecated, reason = "an enum"))]
    pub(crate) use cudnn_sys::cudnnFusedOps_t as _;
    #[cfg_attr(feature = "warn-deprecated", expect(deprecated, reason = "a function"))]
    pub(crate) use cudnn_sys::cudnnOpTensor as _;
    #[cfg_attr(feature = "warn-deprecated", expect(deprecated, reason = "a pointer to an incomplete struct"))]
    pub(crate) use cudnn_sys::cudnnSeqDataDescriptor_t as _;
}

#[test]
fn a_deprecated_name_warns_if_the_feature_asks_for_it() {
    #[cfg_attr(feature = "warn-deprecated", expect(deprecated, reason = "an enumerator"))]
    let old = cudnnStatus_t::CUDNN_STATUS_ALLOC_FAILED;
    assert_eq!(old.0, 4003);
}

#[test]
fn a_name_that_is_not_deprecated_never_warns() {
    use cudnn_sys::cudnnBackendFinalize as _;
    assert!(cudnnStatus_t::CUDNN_STATUS_SUCCESS.is_success());
}
