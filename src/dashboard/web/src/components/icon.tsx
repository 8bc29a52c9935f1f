// Line icons: 24-unit grid, 1.75-unit strokes, in the color of the surrounding text.
import type { ReactNode } from 'react';

const PATHS = {
  close: 'M6 6l12 12M18 6L6 18',
  menu: 'M4 7h16M4 12h16M4 17h16',
  copy: 'M9 9h10v11H9zM5 15V4h10',
  check: 'M5 12.500l4.500 4.500L19 7',
  plus: 'M12 5v14M5 12h14',
  search: 'M11 4.500a6.500 6.500 0 100 13 6.500 6.500 0 000-13zM15.800 15.800L20 20',
  history: 'M4 12a8 8 0 108-8 8 8 0 00-6.500 3.500M5 3.500v4.500h4.500M12 8v4.500l3 2',
  share: 'M5 12v8h14v-8M12 15V4M8 8l4-4 4 4',
  compare: 'M4 5h7v14H4zM13 5h7v14h-7z',
  code: 'M8 7l-5 5 5 5M16 7l5 5-5 5',
  pause: 'M8 5v14M16 5v14',
  chevron: 'M7 10l5 5 5-5',
  warning: 'M12 4l9 16H3zM12 10v4.500M12 17.300v.2',
  info: 'M12 3a9 9 0 100 18 9 9 0 000-18zM12 11v5.500M12 7.500v.2',
  refresh: 'M20 11a8 8 0 10-2 6M20 5v6h-6',
  download: 'M12 4v11M7.500 11l4.500 4.500L16.500 11M5 20h14',
  stop: 'M7 7h10v10H7z',
  play: 'M8 5l11 7-11 7z',
  image: 'M4 5h16v14H4zM4 16l5-5 5 5 2-2 4 4M15.500 9.500h.1',
  trash: 'M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13M10.500 11v5.500M13.500 11v5.500',
  edit: 'M4 20l1-4L16 5l3 3L8 19zM14 7l3 3',
  user: 'M12 12a4 4 0 100-8 4 4 0 000 8zM4.500 20a7.500 7.500 0 0115 0',
  exit: 'M14 4h5v16h-5M4 12h11M11 8l4 4-4 4',
  sun: 'M12 8a4 4 0 100 8 4 4 0 000-8zM12 2.500v2M12 19.500v2M2.500 12h2M19.500 12h2M5.300 5.300l1.400 1.400M17.300 17.300l1.400 1.400M5.300 18.700l1.400-1.400M17.300 6.700l1.400-1.400',
  moon: 'M19.500 14.500A8 8 0 119.500 4.500a6.500 6.500 0 0010 10z',
  system: 'M4 5h16v11H4zM9 20h6M12 16v4',
  overview: 'M4 4h7v7H4zM13 4h7v4h-7zM13 11h7v9h-7zM4 14h7v6H4z',
  playground: 'M4 5h16v11H11l-4 4v-4H4zM8 9.500h8M8 12.500h5',
  models: 'M12 3l8 4.500v9L12 21l-8-4.500v-9zM4 7.500l8 4.500 8-4.500M12 12v9',
  keys: 'M8 11a4.500 4.500 0 100 9 4.500 4.500 0 000-9zM11.200 12.300L20 3.500M16 7.500l3 3',
  usage: 'M4 20h16M6.500 20v-6M12 20V5M17.500 20v-9',
  limits: 'M4 17a8 8 0 1116 0M12 17l4-6M4 17h2M18 17h2',
  responses: 'M5 4h14v5H5zM5 9v11h14V9M10 13h4',
  requests: 'M4 6h3M10 6h10M4 12h3M10 12h10M4 18h3M10 18h6',
  files: 'M4 6h6l2 2.500h8V19H4zM4 11h16',
  webhooks: 'M3 12h8M8 8.500l3.500 3.500L8 15.500M17 4v16M17 7h4M17 12h4M17 17h4',
  members:
    'M9 11a3.500 3.500 0 100-7 3.500 3.500 0 000 7zM2.500 20a6.500 6.500 0 0113 0M16 4.500a3.500 3.500 0 010 6.500M18 14.500a6.500 6.500 0 013.500 5.500',
  settings: 'M4 7h9M17 7h3M4 17h3M11 17h9M15 5a2 2 0 100 4 2 2 0 000-4zM9 15a2 2 0 100 4 2 2 0 000-4z',
  audit: 'M6 3h9l4 4v14H6zM14.500 3v4.500H19M9.500 12h6M9.500 16h6',
  live: 'M3 12h4l2.500-7 5 14L17 12h4',
  tuning: 'M4 20V4M4 20h16M7 17c2-8 6-11 12-12M8 8.500h.1M12 14.500h.1M17 12h.1',
  organizations: 'M4 20V8l8-4 8 4v12M9 20v-5h6v5M9 10.500h.1M15 10.500h.1M12 10.500h.1',
  users: 'M12 12a4 4 0 100-8 4 4 0 000 8zM4.500 20a7.500 7.500 0 0115 0',
  brain:
    'M12 5a3 3 0 00-5.500 1.500A3.500 3.500 0 005 13a3.500 3.500 0 004 5 3 3 0 003 1zM12 5a3 3 0 015.500 1.500A3.500 3.500 0 0119 13a3.500 3.500 0 01-4 5 3 3 0 01-3 1zM12 5v14',
  tool: 'M14.500 6a4.500 4.500 0 005.500 5.500L11 20.500 7.500 17zM14.500 6L17 3.500M20 11.500l1-3',
  external: 'M10 5H5v14h14v-5M14 4h6v6M20 4l-9 9',
} as const;

export type IconName = keyof typeof PATHS;

/** Icons are hidden from screen readers, so adjacent text must convey their meaning. */
export function Icon({ name, size = 16 }: { name: IconName; size?: number }): ReactNode {
  return (
    <svg
      className="icon"
      width={size}
      height={size}
      viewBox="0 0 24 24"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.75"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
      focusable="false"
    >
      <path d={PATHS[name]} />
    </svg>
  );
}
