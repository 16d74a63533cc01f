"""DriftQ in web frameworks."""
