// The import format of a data directory's content: table by table, as rows of the shared database with all values as
// text.

/**
 * `read`: SQL that reads the column back as it was imported. `write`: SQL that converts the imported value
 * (`given.<name>`) to the column's type.
 */
export interface Column {
  readonly name: string;
  readonly type: string;
  readonly read?: string;
  readonly write?: string;
}

export interface Part {
  /** Name in the `imports` table. */
  readonly name: string;
  readonly table: string;
  readonly columns: readonly Column[];
  /** SQL condition and order that select this part's rows, if the table also contains rows of other parts. */
  readonly where?: string;
  /** Number of rows that are read back at a time, if the rows are large. */
  readonly readRows?: number;
  /** Must return the rows in the same order every time. */
  rows(): Iterable<readonly (string | null)[]>;
}

export const column = (name: string, type = 'text'): Column =>
  type === 'double precision' ? { name, type, read: `${name}::double precision::text` } : { name, type };

/** A list of strings, passed as JSON. */
export const listColumn = (name: string): Column => ({
  name,
  type: 'text[]',
  read: `array_to_json(${name})::text`,
  write: `ARRAY(SELECT json_array_elements_text(given.${name}::json))`,
});
