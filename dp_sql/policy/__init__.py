"""What the owner allows: the policy file, its checks and its template."""
