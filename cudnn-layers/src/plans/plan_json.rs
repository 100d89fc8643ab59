//! The JSON that cuDNN makes of a plan. Looks for two members, and leaves the rest to cuDNN.

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
        assert_eq!((engine(b"{}"), engine(br#""engineId":"x""#)), (None, None));
    }
}
