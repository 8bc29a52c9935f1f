// Tables of rows. On a phone's width each row becomes a card, with the headings beside the values.
import type { ReactNode } from 'react';

export interface Column<T> {
  /** Unique within the table. */
  key: string;
  header: string;
  cell: (row: T) => ReactNode;
  /** Numbers are right-aligned, with tabular figures. */
  numeric?: boolean;
  /** What the row is about: first, a row heading. */
  heading?: boolean;
  /** Buttons: no heading shown on phones. */
  actions?: boolean;
}

export function Table<T>({
  caption,
  columns,
  rows,
  rowKey,
  rowClass,
}: {
  /** Read by screen readers. */
  caption: string;
  columns: readonly Column<T>[];
  rows: readonly T[];
  rowKey: (row: T) => string;
  rowClass?: (row: T) => string | undefined;
}): ReactNode {
  const style = ({ numeric, actions }: Column<T>): string | undefined =>
    numeric ? 'numeric' : actions ? 'actions' : undefined;
  return (
    <div className="table-frame">
      <table className="table">
        <caption className="visually-hidden">{caption}</caption>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.key} scope="col" className={style(column)}>
                {column.actions ? <span className="visually-hidden">{column.header}</span> : column.header}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={rowKey(row)} className={rowClass?.(row)}>
              {columns.map((column) =>
                column.heading ? (
                  <th key={column.key} scope="row" className={style(column)}>
                    {column.cell(row)}
                  </th>
                ) : (
                  <td
                    key={column.key}
                    data-label={column.actions ? undefined : column.header}
                    className={style(column)}
                  >
                    {column.cell(row)}
                  </td>
                ),
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
