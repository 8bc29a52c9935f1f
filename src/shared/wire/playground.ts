// The playground's image plans and saved items.

/** GET …/playground/image: how a model processes an image of this size. */
export interface DashboardImagePlan {
  width: number;
  height: number;
  /** Number of prompt tokens. */
  tokens: number;
  /** Tile grid; 1 x 1 = a single tile; 0 x 0 = a single tile that counts as an overview. */
  columns: number;
  rows: number;
  /** In prompt order. Sizes are in pixels, as passed to the vision encoder. */
  pieces: readonly { part: 'image' | 'tile' | 'overview'; width: number; height: number }[];
}

/** A stored turn in the playground, without images. `columns`: more than one if models were compared. */
export type SavedTurn =
  | { kind: 'user'; text: string }
  | {
      kind: 'answer';
      model: string;
      text: string;
      reasoning: string;
      finish_reason: string | null;
      calls: { id: string; name: string; arguments: string }[];
      results: Record<string, string>;
      usage: { prompt: number; cached: number; completion: number; reasoning: number } | null;
      /** Milliseconds from the request to the first token, and to the end. */
      first_ms: number | null;
      total_ms: number | null;
    };
export interface SavedContent {
  settings: Record<string, string>;
  columns: { model: string; turns: SavedTurn[] }[];
}

/** …/organizations/{org}/playground/saved. An item requested by its ID also includes `content`. */
export interface SavedItem {
  id: string;
  kind: 'preset' | 'conversation';
  name: string;
  /** Whether the organization's members can see the item. */
  shared: boolean;
  own: boolean;
  /** Name of the item's owner. */
  by: string;
  created_at: string;
  expires_at: string | null;
}
