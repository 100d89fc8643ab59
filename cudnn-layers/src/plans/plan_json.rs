//! The JSON that cuDNN makes of a plan. Looks for three members, and leaves the rest to cuDNN.

use super::device;

/// Whether the plan has compiled code.
pub(super) fn has_code(plan: &[u8]) -> bool {
    after(plan, b"\"payload\":").is_some_and(|payload| after(payload, b"\"kernels\":").is_some())
}

/// The number of the engine.
pub(super) fn engine(plan: &[u8]) -> Option<i64> {
    let rest = after(plan, b"\"engineId\":")?;
    let len = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(rest.get(..len)?).ok()?.parse().ok()
}

/// The plan with this description of the device in place of its own, which may name another place in the machine. `None` if the
/// two differ in more.
pub(super) fn for_device(plan: Vec<u8>, device: &[u8]) -> Option<Vec<u8>> {
    let name = b"\"GPUProfile\":";
    let start = plan.windows(name.len()).position(|window| window == name)? + name.len();
    // A description has no objects within.
    let len = plan.get(start..)?.iter().position(|byte| *byte == b'}')? + 1;
    let own = plan.get(start..start + len)?;
    if own == device {
        return Some(plan);
    }
    if device::without_place(own) != device::without_place(device) {
        return None;
    }
    Some([plan.get(..start)?, device, plan.get(start + len..)?].concat())
}

fn after<'a>(text: &'a [u8], what: &[u8]) -> Option<&'a [u8]> {
    let place = text.windows(what.len()).position(|window| window == what)?;
    text.get(place + what.len()..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_and_the_code_are_found() {
        let compiled = br#"{"cudnnVersion":91900,"engine":{"engineId":71,"payload":{"kernels":[{"kernelName":"a"}]}}}"#;
        assert!(has_code(compiled));
        assert_eq!(engine(compiled), Some(71));
        let precompiled = br#"{"cudnnVersion":91900,"engine":{"engineId":1,"knobChoices":{}}}"#;
        assert!(!has_code(precompiled));
        assert_eq!(engine(precompiled), Some(1));
        let on = |place: u32| {
            format!(r#"{{"a":1,"GPUProfile":{{"cudaDeviceId":{place},"deviceVer":900}},"b":2}}"#).into_bytes()
        };
        let device = |place: u32, version: u32| format!(r#"{{"cudaDeviceId":{place},"deviceVer":{version}}}"#);
        assert_eq!(for_device(on(0), device(0, 900).as_bytes()), Some(on(0)));
        assert_eq!(for_device(on(0), device(3, 900).as_bytes()), Some(on(3)));
        assert_eq!(for_device(on(0), device(0, 800).as_bytes()), None);
        assert_eq!(for_device(b"{}".to_vec(), b"{}"), None);
        assert_eq!((engine(b"{}"), engine(br#""engineId":"x""#)), (None, None));
    }
}
