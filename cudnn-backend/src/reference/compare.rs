//! Compares a result with the reference.

/// Returns the relative error of a result in the 2-norm.
///
/// # Errors
/// Returns a sentence if this exceeds the tolerance, if a single element exceeds 20 times the tolerance, or if the result
/// has another length or contains NaN.
pub fn compare(result: &[f32], reference: &[f32], tolerance: f64) -> Result<f64, String> {
    let (mut difference, mut size, mut largest) = (0f64, 0f64, 0f64);
    for (value, expected) in result.iter().zip(reference) {
        difference += f64::from(value - expected).powi(2);
        size += f64::from(*expected).powi(2);
        largest = largest.max(f64::from(value - expected).abs());
    }
    let error = (difference / size).sqrt();
    let typical = (size / reference.len() as f64).sqrt();
    if largest > typical * tolerance * 20.0 {
        return Err(format!(
            "the result is wrong: one element differs by {largest:.1e} from the CPU's, where {typical:.1e} is typical"
        ));
    }
    // `error > tolerance` would be false for NaN.
    if error <= tolerance && result.len() == reference.len() {
        Ok(error)
    } else {
        Err(format!(
            "the result is wrong: the relative error against the CPU is {error:.1e}, and at most {tolerance:.0e} is allowed"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compare_rejects_one_wrong_element_and_one_that_was_never_written() {
        let right = vec![1.0; 100_000];
        assert!(compare(&right, &right, 1e-3).is_ok());
        for wrong in [f32::NAN, 2.0] {
            let mut result = right.clone();
            *result.last_mut().unwrap_or(&mut 0.0) = wrong;
            assert!(compare(&result, &right, 1e-1).is_err() || wrong == 2.0 && compare(&result, &right, 1e-2).is_err());
        }
    }
}
