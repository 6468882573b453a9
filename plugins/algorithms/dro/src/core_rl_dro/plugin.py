"""DRO and the squared-log-ratio objectives of Kimi."""
