/* A module of the guest that is linked to libcudnn_graph.so.9. With -DCONSTRUCTOR, its constructor calls the guest
 * while ld.so holds its lock. */
int cudnnBackendCreateDescriptor(int kind, void **made);
int cudnnBackendDestroyDescriptor(void *made);

enum { TENSOR = 17 };

/* Creates and destroys a descriptor. */
int call(void) {
    void *made = 0;
    int status = cudnnBackendCreateDescriptor(TENSOR, &made);
    return status ? status : cudnnBackendDestroyDescriptor(made);
}

#ifdef CONSTRUCTOR
void constructor_calls(void);

__attribute__((constructor)) static void start(void) { constructor_calls(); }
#endif
