// What a data folder's content is brought over as: rows of one table of the shared database at a time, values as text.

/** `read`: how the column is read back as it was given; `write`: how what was given (`given.<name>`) becomes it. */
export interface Column {
  readonly name: string;
  readonly type: string;
  readonly read?: string;
  readonly write?: string;
}

export interface Part {
  /** In `imports`. */
  readonly name: string;
  readonly table: string;
  readonly columns: readonly Column[];
  /** Where the table has rows of other parts: which are this one's, and in which order they are read. */
  readonly where?: string;
  /** In an order that is always the same. */
  rows(): Iterable<readonly (string | null)[]>;
}

export const column = (name: string, type = 'text'): Column =>
  type === 'double precision' ? { name, type, read: `${name}::double precision::text` } : { name, type };

/** A list of texts, given as JSON. */
export const listColumn = (name: string): Column => ({
  name,
  type: 'text[]',
  read: `array_to_json(${name})::text`,
  write: `ARRAY(SELECT json_array_elements_text(given.${name}::json))`,
});
