"""A GGUF file in memory with all tensors in F32, to be changed and written. Read and written with llama.cpp's `gguf`."""
import numpy as np
from gguf import GGUFReader, GGUFValueType, GGUFWriter
from gguf.quants import dequantize

PLAIN = ("F32", "F16", "I32", "I64")


class File:
    def __init__(self, path):
        reader = GGUFReader(path)
        self.values, self.types, self.tensors = {}, {}, {}
        for key, field in reader.fields.items():
            if key.startswith("GGUF."):
                continue
            self.values[key] = field.contents()
            self.types[key] = [GGUFValueType(t) for t in field.types]
        self.architecture = self.values["general.architecture"]
        self.prefix = "clip.vision." if self.architecture == "clip" else self.architecture + "."
        for t in reader.tensors:
            numbers = t.data if t.tensor_type.name in PLAIN else dequantize(t.data, t.tensor_type)
            kept = numbers.dtype if t.tensor_type.name.startswith("I") else np.float32
            self.tensors[t.name] = np.array(numbers, dtype=kept).reshape([int(n) for n in reversed(t.shape)])

    def key(self, name):
        return name if name.startswith("clip.") else self.prefix + name

    def get(self, name, absent=None):
        return self.values.get(self.key(name), absent)

    def set(self, name, value):
        key, array = self.key(name), isinstance(value, list)
        self.values[key] = value
        known = self.types.get(key)
        if known is None or (known[0] == GGUFValueType.ARRAY) != array:
            one = value[0] if array else value
            kind = {bool: GGUFValueType.BOOL, int: GGUFValueType.UINT32, str: GGUFValueType.STRING}.get(type(one), GGUFValueType.FLOAT32)
            self.types[key] = [GGUFValueType.ARRAY, kind] if array else [kind]

    def drop(self, name):
        self.values.pop(self.key(name), None)
        self.types.pop(self.key(name), None)

    def write(self, path):
        writer = GGUFWriter(path, self.architecture)
        for key, value in self.values.items():
            if key == "general.architecture":
                continue
            writer.add_key_value(key, 0 if key == "general.file_type" else value, *self.types[key][:2])
        for name, numbers in self.tensors.items():
            writer.add_tensor(name, np.ascontiguousarray(numbers))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
