"""Choosing a penalty, comparing methods: studies that fit many times."""
