"""Operations that torch's programs have for subclasses of tensors, of which rushlight needs none:
programs are recorded by operations of the table and by custom operations.
"""
