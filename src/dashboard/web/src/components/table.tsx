// Tables. On phones, each row becomes a card with the column headings next to the values, or a single line.
import { useLayoutEffect, useRef, useState } from 'react';
import type { ReactNode, RefObject } from 'react';

export interface Column<T> {
  /** Unique within the table. */
  key: string;
  header: string;
  /**
   * The full heading, for phones and screen readers, if `header` is abbreviated because it follows a related
   * column.
   */
  label?: string;
  cell: (row: T) => ReactNode;
  /** Right-aligned, with digits of equal width. */
  numeric?: boolean;
  /** The cell that identifies the row. Shown first, as a row heading. */
  heading?: boolean;
  /** The cell contains buttons, so the heading is hidden on phones. */
  actions?: boolean;
  /**
   * Shown on phones. If any column sets this, each row is one line on phones and the other columns are hidden. `grow`:
   * the cell takes the remaining width and truncates its text.
   */
  phone?: 'fit' | 'grow';
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
  const inLines = columns.some(({ phone }) => phone !== undefined);
  const style = ({ numeric, actions, phone }: Column<T>): string | undefined =>
    [numeric ? 'numeric' : actions ? 'actions' : '', phone === undefined ? '' : `phone-${phone}`].join(' ').trim() ||
    undefined;
  const [frame, scrolls] = useScrolls();
  return (
    <div
      ref={frame}
      className="table-frame"
      {...(scrolls ? { tabIndex: 0, role: 'region', 'aria-label': `${caption}, scrolls sideways` } : {})}
    >
      <table className={inLines ? 'table lines' : 'table'}>
        <caption className="visually-hidden">{caption}</caption>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.key} scope="col" className={style(column)}>
                <ColumnHeading column={column} />
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
                    data-label={column.actions ? undefined : (column.label ?? column.header)}
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

function ColumnHeading<T>({ column: { header, label, actions } }: { column: Column<T> }): ReactNode {
  if (actions) return <span className="visually-hidden">{header}</span>;
  return label === undefined ? (
    header
  ) : (
    <>
      <span aria-hidden="true">{header}</span>
      <span className="visually-hidden">{label}</span>
    </>
  );
}

/** Whether the element's content is wider than the element. If so, it must be scrollable with the keyboard. */
function useScrolls(): [RefObject<HTMLDivElement | null>, boolean] {
  const frame = useRef<HTMLDivElement>(null);
  const [scrolls, setScrolls] = useState(false);
  useLayoutEffect(() => {
    const element = frame.current;
    if (element === null) return undefined;
    const observer = new ResizeObserver(() => setScrolls(element.scrollWidth > element.clientWidth));
    observer.observe(element);
    for (const child of element.children) observer.observe(child);
    return () => observer.disconnect();
  }, []);
  return [frame, scrolls];
}
