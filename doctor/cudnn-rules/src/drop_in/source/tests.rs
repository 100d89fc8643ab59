use cudnn_probe::facts::Facts;
use serde_json::json;

use super::*;

#[test]
fn saved_facts_say_where_the_doctor_was() {
    let doctor = json!({ "Ok": "/elsewhere/bin/cudnn-doctor" });
    let facts = json!({ "doctor": { "": doctor }, "real path": { "/elsewhere/bin/cudnn-doctor": doctor } });
    let refusal = Facts::from_value(facts).unwrap().within(|| find(None)).unwrap_err();
    assert!(refusal.message.contains("/elsewhere/bin "), "{}", refusal.message);
}
