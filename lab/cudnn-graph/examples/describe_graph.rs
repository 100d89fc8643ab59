//! Describes a convolution that is written as JSON.
//!
//! `cargo run -p cudnn-graph --example describe_graph`

use cudnn_graph::{Graph, Operation, label};

const CONVOLUTION: &str = r#"[
    {"kind":"TENSOR","UNIQUE_ID:3":1,"DATA_TYPE:1":2,"DIMENSIONS:3":[8,64,56,56],"STRIDES:3":[200704,1,3584,64]},
    {"kind":"TENSOR","UNIQUE_ID:3":2,"DATA_TYPE:1":2,"DIMENSIONS:3":[64,64,3,3],"STRIDES:3":[576,1,192,64]},
    {"kind":"TENSOR","UNIQUE_ID:3":3,"DATA_TYPE:1":2,"DIMENSIONS:3":[8,64,56,56],"STRIDES:3":[200704,1,3584,64]},
    {"kind":"CONVOLUTION","COMP_TYPE:1":0,"SPATIAL_DIMS:3":2,"PRE_PADDINGS:3":[1,1],"POST_PADDINGS:3":[1,1]},
    {"kind":"OPERATION_CONVOLUTION_FORWARD","X:15":0,"W:15":1,"Y:15":2,"CONV_DESC:15":3},
    {"kind":"OPERATIONGRAPH","OPS:15":4}
]"#;

fn main() -> Result<(), serde_json::Error> {
    let graph: Graph = serde_json::from_str(CONVOLUTION)?;
    println!("{}", graph.id());
    println!("{}", label::describe(&graph));
    for operation in Operation::all_of(&graph) {
        for operand in operation.operands() {
            println!("{} {}: {:?}", operation.name, operand.role, operand.tensor.extents());
        }
    }
    Ok(())
}
