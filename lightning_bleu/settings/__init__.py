"""What the user chose: options, conventions, and the choices that have names."""
