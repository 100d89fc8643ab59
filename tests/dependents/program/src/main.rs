//! Uses the library and prints the results.

fn main() {
    println!("version {}", link_or_load::version());
    match link_or_load::Dropout::new() {
        Ok(_) => println!("a descriptor"),
        Err(error) => println!("{error}"),
    }
}
