// One migration of the database's tables.

export interface Migration {
  /** A description, stored in monolith_versions. */
  readonly what: string;
  /**
   * Plain SQL, one statement each, all in one transaction. Until it commits, requests wait for the tables that it
   * changes. Therefore, a migration changes only one existing table, or several tables that must change together.
   * Changes to other tables belong in separate migrations.
   */
  readonly statements: readonly string[];
  /**
   * The oldest version whose processes can start and run with this version's tables. A migration that only adds tables
   * or optional columns names the oldest version that exists. A migration that removes something or changes its meaning
   * names its own version, and runs only when no process of an earlier release is running. Such a change takes two
   * releases: the first stops using the old form, and the second removes it.
   */
  readonly oldest: number;
}
