"""The settings: what they are (model), how their texts are read (values), and the file that may hold them."""
