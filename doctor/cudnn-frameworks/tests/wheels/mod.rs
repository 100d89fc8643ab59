//! Lists the pinned wheels of the tests by package and version.

use support::Wheel;

pub(crate) const CTRANSLATE2_4_4: Wheel = Wheel {
    package: "ctranslate2",
    version: "4.4.0",
    sha256: "1656fca5ed866596aea49f045ad7aeb1438ba4d9a56477ae29844672692d5e78",
};
pub(crate) const CTRANSLATE2_4_5: Wheel = Wheel {
    package: "ctranslate2",
    version: "4.5.0",
    sha256: "de3c5877fce31a0fcf3b5edbc8d4e6e22fd94a86c6b49680740ef41130efffc1",
};
pub(crate) const CTRANSLATE2_4_6: Wheel = Wheel {
    package: "ctranslate2",
    version: "4.6.0",
    sha256: "06b2ca5c2905b540dd833a0b75d912ec9acc18d33a2dc4f85f12032851659a0d",
};
pub(crate) const CTRANSLATE2_4_8: Wheel = Wheel {
    package: "ctranslate2",
    version: "4.8.5",
    sha256: "86876e8b579ef61e4d1402002f7728fca40967fe79ac2ef71a65d1b8dc5a18ee",
};
pub(crate) const CUPY_13: Wheel = Wheel {
    package: "cupy-cuda12x",
    version: "13.6.0",
    sha256: "79b0cacb5e8b190ef409f9e03f06ac8de1b021b0c0dda47674d446f5557e0eb1",
};
pub(crate) const CUPY_14: Wheel = Wheel {
    package: "cupy-cuda12x",
    version: "14.2.0",
    sha256: "f82141761f2c81905d49387464ae29438887956d99063381c93a1d5d1b7d32e8",
};
pub(crate) const CUPY_CUDA_13: Wheel = Wheel {
    package: "cupy-cuda13x",
    version: "14.2.0",
    sha256: "9aafadbe29db3d4285026044aafeb28f2a3de4bd0df70718ec6892b7d27a4ded",
};
pub(crate) const JAX_PJRT: Wheel = Wheel {
    package: "jax-cuda12-pjrt",
    version: "0.12.0.1",
    sha256: "5ec28e06198d094031c37590b4ea753ae8cde4879ab4b60baf40f0dffb673286",
};
pub(crate) const JAX_PLUGIN: Wheel = Wheel {
    package: "jax-cuda12-plugin",
    version: "0.12.0.1",
    sha256: "61dc67a8341ad6a0bb59631307914581ad16055f6c5635a2b7e57dfffb77e466",
};
pub(crate) const JAX_13_PJRT: Wheel = Wheel {
    package: "jax-cuda13-pjrt",
    version: "0.12.0.1",
    sha256: "5899bb6177eda86ea532afb9a26794f2bdd04966f6a01f9028266b16c2b6cf90",
};
pub(crate) const JAX_13_PLUGIN: Wheel = Wheel {
    package: "jax-cuda13-plugin",
    version: "0.12.0.1",
    sha256: "6028faf179e7aa7cc64100ed3c7c7b1b11346f5aa05d5e9e33e8fe60c5289fa1",
};
pub(crate) const ONNX_1_22: Wheel = Wheel {
    package: "onnxruntime-gpu",
    version: "1.22.0",
    sha256: "86b064c8f6cbe6da03f51f46351237d985f8fd5eb907d3f9997ea91881131a13",
};
pub(crate) const ONNX_1_31: Wheel = Wheel {
    package: "onnxruntime-gpu",
    version: "1.31.1",
    sha256: "05d548956197b9d01f59b625de740e0d6be3593f874e241a12dc0362650ecdf7",
};
