// Vector lengths below the full length that the authors of embedding models document (Matryoshka representation
// learning).

/**
 * Shorter lengths by GGUF architecture. An architecture is absent if only some of its models are trained for shorter
 * vectors.
 */
const DIMENSIONS: Readonly<Record<string, readonly number[]>> = {
  'gemma-embedding': [128, 256, 512],
  'jina-bert-v3': [32, 64, 128, 256, 512, 768],
};

export const documentedDimensions = (architecture: string): readonly number[] => DIMENSIONS[architecture] ?? [];
