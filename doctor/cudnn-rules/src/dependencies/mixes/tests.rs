use cudnn_probe::facts::{Changes, Facts};
use cudnn_probe::image::{Identity, Links};

use super::*;

#[test]
fn an_older_shim_works_unless_it_is_for_another_cuda() {
    let facts = Facts::from_value(serde_json::json!({})).unwrap();
    for (release, cuda_major, expected) in [
        (Version::new(9, 28, 0), 12, None),
        (Version::new(9, 28, 0), 13, Some(false)),
        (Version::new(9, 19, 0), 12, Some(true)),
        (Version::new(9, 19, 0), 13, Some(false)),
    ] {
        let mut changes = Changes::default();
        let places = [("/one", Version::new(9, 28, 0), 12), ("/other", release, cuda_major)];
        for (dir, release, cuda_major) in places {
            for library in [Library::Graph, Library::Shim] {
                let file = Path::new(dir).join(library.file_name());
                changes.write_cudnn(&file, library, release, cuda_major, &Links::default());
            }
        }
        let found = facts.after(changes).within(|| {
            let of = |dir: &str, library: Library| {
                let file = Path::new(dir).join(library.file_name());
                Dependency::new(library.file_name().into(), Some(file), String::new(), None)
            };
            mixes(&[of("/other", Library::Shim), of("/one", Library::Graph)])
        });
        assert_eq!(found.first().map(|mix| mix.works), expected, "{release} {cuda_major}");
        assert_eq!(found.iter().any(|mix| mix.message.contains("CUDA majors")), cuda_major == 13);
    }
}

#[test]
fn a_limit_of_graph_contradicts_a_newer_cuda() {
    let facts = Facts::from_value(serde_json::json!({})).unwrap();
    let (shim, graph) = (Path::new("/other/libcudnn.so.9"), Path::new("/one/libcudnn_graph.so.9"));
    let mut changes = Changes::default();
    changes.write_cudnn(shim, Library::Shim, Version::new(9, 19, 0), 13, &Links::default());
    changes.write_cudnn(graph, Library::Graph, Version::new(9, 28, 0), 12, &Links::default());
    let identity = facts.after(changes.clone()).within(|| cudnn_probe::identify_any(graph, Library::Graph)).unwrap();
    let mut limited: Identity = identity;
    (limited.cuda_major, limited.cuda_at_most) = (None, Some(12));
    changes.write_copy(graph, limited, &Links::default());
    let found = facts.after(changes).within(|| {
        let of = |library: Library, file: &Path| {
            Dependency::new(library.file_name().into(), Some(file.to_owned()), String::new(), None)
        };
        mixes(&[of(Library::Shim, shim), of(Library::Graph, graph)])
    });
    assert_eq!(found.first().map(|mix| mix.works), Some(false));
}
