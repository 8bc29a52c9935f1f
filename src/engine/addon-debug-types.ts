// Data that `monolith debug` reads from the native addon (addon-types.ts): logits, and intermediate results of image
// processing.

export interface DebugLogits {
  tokens: number[];
  positions: { position: number; logits: Float32Array }[];
  continuation: { tokens: number[]; logits: number[]; last: { position: number; logits: Float32Array } } | null;
}

/** A decoded image: 8-bit RGB, row by row without padding. */
export interface RgbImage {
  width: number;
  height: number;
  pixels: Uint8Array;
}

export interface DebugVisionTokens {
  position: number; // value of the position counter before it
  tokens: Int32Array;
}

export interface DebugVisionPiece {
  position: number;
  tokens?: undefined;
  image: number;
  part: 'image' | 'tile' | 'overview';
  row: number; // row and column of a tile, starting at 1; otherwise 0
  column: number;
  width: number; // size in pixels, as passed to the vision encoder
  height: number;
  nTokens: number;
  nPositions: number;
  bidirectional: boolean;
  positions: Int32Array | null; // time, row and column of each token, for models with three-dimensional positions
  hash: string;
  pixelsU8Sha256: string;
  pixelsF32Sha256: string;
  embeddingSize: number;
  embeddings: Uint8Array; // little-endian float32: [nTokens][embeddingSize]
}

export interface DebugVision {
  grids: Int32Array[]; // columns and rows of each image
  sequence: (DebugVisionTokens | DebugVisionPiece)[];
  nTokens: number;
  nPositions: number;
  continuation: { logits: Float32Array; tokens: Int32Array; margins: Float32Array; lastLogits: Float32Array } | null;
}
