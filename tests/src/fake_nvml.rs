//! Compiles a fake `libnvidia-ml.so.1`, which reports one GPU to the doctor.

use std::path::Path;

use crate::compiler::compile;

/// The GPU and the driver that it reports.
#[derive(Clone, Copy, Debug)]
pub struct FakeNvml {
    /// The driver's version: `580.65.06`.
    pub driver: &'static str,
    /// The name of the GPU.
    pub gpu: &'static str,
    /// The compute capability: major and minor.
    pub compute_capability: (u32, u32),
}

impl FakeNvml {
    /// Compiles it into this directory.
    pub fn build(&self, dir: &Path) {
        let FakeNvml { driver, gpu, compute_capability: (major, minor) } = self;
        let code = format!(
            "int nvmlInit_v2(void) {{ return 0; }}\nint nvmlShutdown(void) {{ return 0; }}\n\
             static void put(char *to, const char *from) {{ while ((*to++ = *from++)); }}\n\
             int nvmlSystemGetDriverVersion(char *to, unsigned size) {{ put(to, \"{driver}\"); return 0; }}\n\
             int nvmlDeviceGetCount_v2(unsigned *count) {{ *count = 1; return 0; }}\n\
             int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {{ *device = device; return 0; }}\n\
             int nvmlDeviceGetName(void *device, char *to, unsigned size) {{ put(to, \"{gpu}\"); return 0; }}\n\
             int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor)\n\
             {{ *major = {major}; *minor = {minor}; return 0; }}\n"
        );
        compile(&code, &["-shared", "-fPIC", "-w"], &dir.join("libnvidia-ml.so.1"));
    }
}
