//! Blocks of 64 bytes on processors with AVX2, which compares half of one at a time. A check of JSON took 1.6 times as
//! long without. The caller has to know that the processor has AVX2; without it, no instruction of this file may run.

use std::arch::x86_64::{
    __m256i, _mm256_cmpeq_epi8, _mm256_loadu_si256, _mm256_min_epu8, _mm256_movemask_epi8,
    _mm256_or_si256, _mm256_set1_epi8, _mm256_sub_epi8,
};

use super::blocks::{Bytes, BLOCK_BYTES};

#[derive(Clone, Copy)]
pub(super) struct Avx2(__m256i, __m256i);

// Closures would not be compiled for AVX2, so each half is written out.
impl Bytes for Avx2 {
    #[inline(always)]
    fn load(bytes: &[u8; BLOCK_BYTES]) -> Self {
        let (halves, _) = bytes.as_chunks::<32>();
        let (low, high) = (halves[0].as_ptr(), halves[1].as_ptr());
        // SAFETY: the processor has AVX2, and each half has as many bytes as are read, wherever it lies.
        unsafe {
            Self(
                _mm256_loadu_si256(low.cast()),
                _mm256_loadu_si256(high.cast()),
            )
        }
    }

    #[inline(always)]
    fn splat(byte: u8) -> Self {
        // SAFETY: the processor has AVX2.
        let all = unsafe { _mm256_set1_epi8(byte as i8) };
        Self(all, all)
    }

    #[inline(always)]
    fn equal(self, other: Self) -> Self {
        // SAFETY: the processor has AVX2.
        unsafe {
            Self(
                _mm256_cmpeq_epi8(self.0, other.0),
                _mm256_cmpeq_epi8(self.1, other.1),
            )
        }
    }

    #[inline(always)]
    fn smaller(self, other: Self) -> Self {
        // SAFETY: the processor has AVX2.
        unsafe {
            Self(
                _mm256_min_epu8(self.0, other.0),
                _mm256_min_epu8(self.1, other.1),
            )
        }
    }

    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        // SAFETY: the processor has AVX2.
        unsafe {
            Self(
                _mm256_sub_epi8(self.0, other.0),
                _mm256_sub_epi8(self.1, other.1),
            )
        }
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        // SAFETY: the processor has AVX2.
        unsafe {
            Self(
                _mm256_or_si256(self.0, other.0),
                _mm256_or_si256(self.1, other.1),
            )
        }
    }

    #[inline(always)]
    fn mask(self) -> u64 {
        // SAFETY: the processor has AVX2.
        let (low, high) = unsafe { (_mm256_movemask_epi8(self.0), _mm256_movemask_epi8(self.1)) };
        u64::from(low as u32) | u64::from(high as u32) << 32
    }
}
