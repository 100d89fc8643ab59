/* A tool that receives NVTX ranges: the library in NVTX_INJECTION64_PATH. */
int InitializeInjectionNvtx2(void *get_export_table) { return get_export_table != 0; }
