"""M2PO: second-moment trust for stale samples."""
