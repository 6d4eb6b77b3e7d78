"""Building blocks of methods: losses, normalisation layers, teachers, memories and views."""
