// Tables. On phones, each row becomes a card with the column headings next to the values.
import type { ReactNode } from 'react';

export interface Column<T> {
  /** Unique within the table. */
  key: string;
  header: string;
  cell: (row: T) => ReactNode;
  /** Right-aligned, with digits of equal width. */
  numeric?: boolean;
  /** The cell that identifies the row. Shown first, as a row heading. */
  heading?: boolean;
  /** The cell contains buttons, so its heading is hidden on phones. */
  actions?: boolean;
}

export function Table<T>({
  caption,
  columns,
  rows,
  rowKey,
  rowClass,
}: {
  /** The table's name, announced by screen readers. */
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
