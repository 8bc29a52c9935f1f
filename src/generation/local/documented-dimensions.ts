// The shorter vector lengths that model families document (Matryoshka representation learning).

/** By architecture. Families of which only some models are trained this way are absent. */
const DIMENSIONS: Readonly<Record<string, readonly number[]>> = {
  'gemma-embedding': [128, 256, 512],
  'jina-bert-v3': [32, 64, 128, 256, 512, 768],
};

export const documentedDimensions = (architecture: string): readonly number[] => DIMENSIONS[architecture] ?? [];
