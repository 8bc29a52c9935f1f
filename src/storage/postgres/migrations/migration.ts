// One step of the database's tables.

export interface Migration {
  /** What it brings, for who looks at monolith_versions. */
  readonly what: string;
  /** Plain SQL, one statement each, all in one transaction. */
  readonly statements: readonly string[];
}
