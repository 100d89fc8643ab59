//! The compiler warns at the names that cuDNN's headers mark as deprecated, with the feature `warn-deprecated` and only then.
//! It checks this while it compiles: each use below must warn with the feature, and none may without.
#![deny(deprecated, unfulfilled_lint_expectations)]
#![allow(unused_imports, reason = "naming an item is a use that warns, and links nothing")]

use cudnn_loader::cudnnStatus_t;

mod each_warns {
    #[cfg_attr(feature = "warn-deprecated", expect(deprecated, reason = "a struct"))]
    pub(crate) use cudnn_loader::cudnnConvolutionFwdAlgoPerf_t as _;
    #[cfg_attr(feature = "warn-deprecated", expect(deprecated, reason = "an enum"))]
    pub(crate) use cudnn_loader::cudnnFusedOps_t as _;
    #[cfg_attr(feature = "warn-deprecated", expect(deprecated, reason = "a function"))]
    pub(crate) use cudnn_loader::cudnnOpTensor as _;
    #[cfg_attr(feature = "warn-deprecated", expect(deprecated, reason = "a pointer to an incomplete struct"))]
    pub(crate) use cudnn_loader::cudnnSeqDataDescriptor_t as _;
}

#[test]
fn a_deprecated_name_warns_if_the_feature_asks_for_it() {
    #[cfg_attr(feature = "warn-deprecated", expect(deprecated, reason = "an enumerator"))]
    let old = cudnnStatus_t::CUDNN_STATUS_ALLOC_FAILED;
    assert_eq!(old.0, 4003);
}

#[test]
fn a_name_that_is_not_deprecated_never_warns() {
    use cudnn_loader::cudnnBackendFinalize as _;
    assert!(cudnnStatus_t::CUDNN_STATUS_SUCCESS.is_success());
}
