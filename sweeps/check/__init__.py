"""`check`: is every file of a sweep as it was made, and making again what is not."""
