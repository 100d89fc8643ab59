//! Makes first calls in forked children.

use super::{child, graph_with, run};

#[test]
fn a_child_forked_during_a_first_call_can_make_its_own() {
    let dir = graph_with(
        "int usleep(unsigned); __attribute__((constructor)) static void construct(void) { usleep(900000); }",
    );
    let output = run(child(dir.path()), &["fork"]);
    for text in ["in the child: 91900", "the child exited with 0", "in the parent: 91900"] {
        assert!(output.stdout.contains(text), "{output:#?}");
    }
}
