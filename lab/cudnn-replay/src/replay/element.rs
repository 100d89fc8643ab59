//! Converts elements of tensors from bytes to `f64` and back.

use cudnn_graph::element_bits;
use cudnn_loader::cudnnDataType_t as DataType;
use half::{bf16, f16};

/// Returns the size of an element in bytes, or `None` if the type is unsupported.
pub(super) fn size(ty: DataType) -> Option<usize> {
    match element_bits(ty).and_then(|bits| usize::try_from(bits).ok()) {
        Some(bits) if is_readable(ty) => Some(bits / 8),
        // Booleans are packed in memory, and need less there.
        _ if ty == DataType::CUDNN_DATA_BOOLEAN => Some(1),
        _ => None,
    }
}

pub(super) fn is_readable(ty: DataType) -> bool {
    is_integer(ty) && ty != DataType::CUDNN_DATA_BOOLEAN
        || matches!(
            ty,
            DataType::CUDNN_DATA_DOUBLE
                | DataType::CUDNN_DATA_FLOAT
                | DataType::CUDNN_DATA_HALF
                | DataType::CUDNN_DATA_BFLOAT16
                | DataType::CUDNN_DATA_FP8_E4M3
                | DataType::CUDNN_DATA_FP8_E5M2
                | DataType::CUDNN_DATA_FP8_E8M0
        )
}

pub(super) fn is_integer(ty: DataType) -> bool {
    matches!(
        ty,
        DataType::CUDNN_DATA_INT64
            | DataType::CUDNN_DATA_INT32
            | DataType::CUDNN_DATA_UINT32
            | DataType::CUDNN_DATA_INT8
            | DataType::CUDNN_DATA_UINT8
            | DataType::CUDNN_DATA_BYTE_BOOLEAN
            | DataType::CUDNN_DATA_BOOLEAN
    )
}

/// Returns the distance between 1 and the next number. It is 1 for integers, booleans and powers of two (`FP8_E8M0`).
pub(super) fn precision(ty: DataType) -> f64 {
    let bits = match ty {
        DataType::CUDNN_DATA_DOUBLE => 52,
        DataType::CUDNN_DATA_FLOAT => 23,
        DataType::CUDNN_DATA_HALF => 10,
        DataType::CUDNN_DATA_BFLOAT16 => 7,
        DataType::CUDNN_DATA_FP8_E4M3 => 3,
        DataType::CUDNN_DATA_FP8_E5M2 => 2,
        _ => 0,
    };
    libm::exp2(-f64::from(bits))
}

/// Returns the value of an element. Missing bytes count as zeros.
pub(super) fn decode(ty: DataType, bytes: &[u8]) -> f64 {
    fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
        bytes.first_chunk().copied().unwrap_or_else(|| {
            let mut array = [0; N];
            array.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            array
        })
    }
    let [byte] = array(bytes);
    match ty {
        DataType::CUDNN_DATA_DOUBLE => f64::from_le_bytes(array(bytes)),
        DataType::CUDNN_DATA_FLOAT => f64::from(f32::from_le_bytes(array(bytes))),
        DataType::CUDNN_DATA_HALF => f16::from_le_bytes(array(bytes)).to_f64(),
        DataType::CUDNN_DATA_BFLOAT16 => bf16::from_le_bytes(array(bytes)).to_f64(),
        DataType::CUDNN_DATA_INT64 => i64::from_le_bytes(array(bytes)) as f64,
        DataType::CUDNN_DATA_INT32 => f64::from(i32::from_le_bytes(array(bytes))),
        DataType::CUDNN_DATA_UINT32 => f64::from(u32::from_le_bytes(array(bytes))),
        DataType::CUDNN_DATA_INT8 => f64::from(byte.cast_signed()),
        DataType::CUDNN_DATA_FP8_E4M3 => decode_fp8(E4M3, byte),
        DataType::CUDNN_DATA_FP8_E5M2 => decode_fp8(E5M2, byte),
        DataType::CUDNN_DATA_FP8_E8M0 if byte == 0xff => f64::NAN,
        DataType::CUDNN_DATA_FP8_E8M0 => libm::exp2(f64::from(byte) - 127.0),
        _ => f64::from(byte),
    }
}

/// Sets the first bytes to the nearest finite value of the type.
pub(super) fn encode(ty: DataType, value: f64, bytes: &mut [u8]) {
    fn set<const N: usize>(bytes: &mut [u8], value: [u8; N]) {
        if let Some(bytes) = bytes.first_chunk_mut() {
            *bytes = value;
        }
    }
    match ty {
        DataType::CUDNN_DATA_DOUBLE => set(bytes, value.to_le_bytes()),
        DataType::CUDNN_DATA_FLOAT => set(bytes, (value as f32).clamp(f32::MIN, f32::MAX).to_le_bytes()),
        DataType::CUDNN_DATA_HALF => set(bytes, f16::from_f64(value.clamp(-65504.0, 65504.0)).to_le_bytes()),
        DataType::CUDNN_DATA_BFLOAT16 => {
            let max = bf16::MAX.to_f64();
            set(bytes, bf16::from_f64(value.clamp(-max, max)).to_le_bytes());
        }
        DataType::CUDNN_DATA_INT64 => set(bytes, (value as i64).to_le_bytes()),
        DataType::CUDNN_DATA_INT32 => set(bytes, (value as i32).to_le_bytes()),
        DataType::CUDNN_DATA_UINT32 => set(bytes, (value as u32).to_le_bytes()),
        DataType::CUDNN_DATA_INT8 => set(bytes, [(value as i8).cast_unsigned()]),
        DataType::CUDNN_DATA_UINT8 => set(bytes, [value as u8]),
        DataType::CUDNN_DATA_FP8_E4M3 => set(bytes, [encode_fp8(E4M3, value)]),
        DataType::CUDNN_DATA_FP8_E5M2 => set(bytes, [encode_fp8(E5M2, value)]),
        DataType::CUDNN_DATA_FP8_E8M0 => {
            let exponent = libm::log2(value.abs().max(f64::MIN_POSITIVE)).round();
            set(bytes, [(exponent + 127.0).clamp(0.0, 254.0) as u8]);
        }
        _ => set(bytes, [u8::from(value > 0.0)]),
    }
}

/// An 8-bit type: the bits of the mantissa, the bias of the exponent, and the code of the largest finite number.
#[derive(Clone, Copy)]
struct Fp8 {
    mantissa: u8,
    bias: i32,
    max: u8,
}

const E4M3: Fp8 = Fp8 { mantissa: 3, bias: 7, max: 0x7e };
const E5M2: Fp8 = Fp8 { mantissa: 2, bias: 15, max: 0x7b };

fn decode_fp8(Fp8 { mantissa, bias, max }: Fp8, byte: u8) -> f64 {
    let (code, sign) = (byte & 0x7f, if byte >= 0x80 { -1.0 } else { 1.0 });
    if code > max {
        // In E5M2, an infinity and NaNs follow.
        return if mantissa == 2 && code == max + 1 { sign * f64::INFINITY } else { f64::NAN };
    }
    let fraction = f64::from(code & ((1 << mantissa) - 1)) / f64::from(1 << mantissa);
    let magnitude = match i32::from(code >> mantissa) {
        0 => fraction * libm::exp2(f64::from(1 - bias)),
        exponent => (1.0 + fraction) * libm::exp2(f64::from(exponent - bias)),
    };
    sign * magnitude
}

fn encode_fp8(ty: Fp8, value: f64) -> u8 {
    let sign = if value.is_sign_negative() { 0x80 } else { 0 };
    let magnitude = value.abs();
    // The codes have the order of the values.
    let (mut below, mut above) = (0, ty.max);
    while above - below > 1 {
        let middle = below + (above - below) / 2;
        if decode_fp8(ty, middle) <= magnitude { below = middle } else { above = middle }
    }
    let (down, up) = (magnitude - decode_fp8(ty, below), decode_fp8(ty, above) - magnitude);
    // Ties go to the even code.
    let code = if up < down || (up == down && above % 2 == 0) { above } else { below };
    sign | code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_of_small_types_survives() {
        for ty in [DataType::CUDNN_DATA_FP8_E4M3, DataType::CUDNN_DATA_FP8_E5M2, DataType::CUDNN_DATA_INT8] {
            for code in 0..=255_u8 {
                let value = decode(ty, &[code]);
                let mut bytes = [0];
                encode(ty, value, &mut bytes);
                assert!(!value.is_finite() || bytes == [code], "{ty:?} {code:x} is {value}, which is {bytes:x?}");
            }
        }
        for (ty, code, value) in [
            (DataType::CUDNN_DATA_FP8_E4M3, 0x7e, 448.0),
            (DataType::CUDNN_DATA_FP8_E5M2, 0x7b, 57344.0),
            (DataType::CUDNN_DATA_FP8_E4M3, 0x38, 1.0),
            (DataType::CUDNN_DATA_FP8_E5M2, 0x3c, 1.0),
            (DataType::CUDNN_DATA_FP8_E4M3, 0x01, 1.0 / 512.0),
            (DataType::CUDNN_DATA_FP8_E8M0, 0x80, 2.0),
        ] {
            assert_eq!(decode(ty, &[code]), value, "{ty:?}");
        }
    }

    #[test]
    fn scales_are_no_integers() {
        assert!(!is_integer(DataType::CUDNN_DATA_FP8_E8M0) && is_readable(DataType::CUDNN_DATA_FP8_E8M0));
        assert!(is_integer(DataType::CUDNN_DATA_INT8) && !is_readable(DataType::CUDNN_DATA_INT8x4));
    }

    #[test]
    fn values_are_rounded_to_the_nearest_and_saturate() {
        for (ty, value, nearest) in [
            (DataType::CUDNN_DATA_FP8_E4M3, 17.0, 16.0),
            (DataType::CUDNN_DATA_FP8_E4M3, 19.0, 20.0),
            (DataType::CUDNN_DATA_FP8_E4M3, -1e9, -448.0),
            (DataType::CUDNN_DATA_HALF, 1e9, 65504.0),
            (DataType::CUDNN_DATA_HALF, 2049.0, 2048.0),
            (DataType::CUDNN_DATA_BFLOAT16, 257.0, 256.0),
            (DataType::CUDNN_DATA_FLOAT, 16_777_217.0, 16_777_216.0),
            (DataType::CUDNN_DATA_INT8, 300.0, 127.0),
            (DataType::CUDNN_DATA_BYTE_BOOLEAN, 2.0, 1.0),
            (DataType::CUDNN_DATA_INT32, -5.0, -5.0),
        ] {
            let mut bytes = vec![0; size(ty).unwrap()];
            encode(ty, value, &mut bytes);
            assert_eq!(decode(ty, &bytes), nearest, "{ty:?} {value}");
        }
    }

    #[test]
    fn a_byte_pattern_of_ones_is_no_number() {
        for ty in [
            DataType::CUDNN_DATA_DOUBLE,
            DataType::CUDNN_DATA_FLOAT,
            DataType::CUDNN_DATA_HALF,
            DataType::CUDNN_DATA_BFLOAT16,
            DataType::CUDNN_DATA_FP8_E4M3,
            DataType::CUDNN_DATA_FP8_E5M2,
            DataType::CUDNN_DATA_FP8_E8M0,
        ] {
            assert!(decode(ty, &[0xff; 8]).is_nan(), "{ty:?}");
        }
    }
}
