//! Chooses the partition of a message by its key.

/// FNV-1a, 32 bits: the hash that v1 guarantees. Only the server hashes; clients never do.
fn fnv1a32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Returns the partition of a non-empty key.
pub(crate) fn of_key(key: &[u8], partitions: u32) -> u32 {
    fnv1a32(key) % partitions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_go_where_v1_put_them() {
        for (key, hash, of_3, of_4) in [
            ("user:1", 0x6d1a_4acb_u32, 1, 3),
            ("user:2", 0x6e1a_4c5e, 0, 2),
            ("order-123", 0xa508_cf1a, 1, 2),
        ] {
            assert_eq!(fnv1a32(key.as_bytes()), hash, "{key}");
            assert_eq!(
                (of_key(key.as_bytes(), 3), of_key(key.as_bytes(), 4)),
                (of_3, of_4),
                "{key}"
            );
        }
    }
}
