// Page layout for signed-in users: navigation in a sidebar, or in a drawer on narrow screens.
import { useCallback, useEffect, useRef, useState } from 'react';
import type { ReactNode } from 'react';
import { Link, useLocation } from 'wouter';
import { useToast } from '../components/toasts.js';
import { Icon } from '../components/icon.js';
import { Segmented } from '../components/tabs.js';
import { messageOf } from '../api.js';
import { areaOf, NAVIGATION } from '../navigation.js';
import type { Area } from '../navigation.js';
import { CommandPalette, paletteKey, usePaletteKey } from '../palette/command-palette.js';
import { atLeast } from '../roles.js';
import { useMe, useSession } from '../session.js';
import { chooseTheme, readTheme } from '../theme.js';
import type { Theme } from '../theme.js';
import { BudgetNotice } from './budget-notice.js';
import { OrganizationSwitcher } from './organization-switcher.js';

export function Shell({ children }: { children: ReactNode }): ReactNode {
  const [location] = useLocation();
  const drawer = useRef<HTMLDialogElement>(null);
  const [searching, setSearching] = useState(false);
  const area = useArea(location);
  useEffect(() => drawer.current?.close(), [location]);
  const search = useCallback(() => {
    drawer.current?.close();
    setSearching(true);
  }, []);
  usePaletteKey(search);
  return (
    <>
      <a
        className="skip-link"
        href="#main"
        onClick={(event) => {
          event.preventDefault();
          document.getElementById('main')?.focus();
        }}
      >
        Skip to content
      </a>
      <div className="shell">
        <header className="top-bar">
          <Link href="/" className="brand" aria-label="Monolith, overview">
            <Wordmark />
          </Link>
          <span className="top-bar-space" />
          <button type="button" className="icon-button large" aria-label="Search" onClick={search}>
            <Icon name="search" size={20} />
          </button>
          <button
            type="button"
            className="icon-button large"
            aria-label="Menu"
            aria-haspopup="dialog"
            onClick={() => drawer.current?.showModal()}
          >
            <Icon name="menu" size={20} />
          </button>
        </header>
        <aside className="sidebar">
          <Sidebar area={area} onSearch={search} />
        </aside>
        <main id="main" tabIndex={-1}>
          <div className="page">
            <BudgetNotice />
            {children}
          </div>
        </main>
      </div>
      <dialog
        ref={drawer}
        className="drawer"
        aria-label="Menu"
        onMouseDown={(event) => {
          if (event.target === event.currentTarget) drawer.current?.close();
        }}
      >
        <div className="drawer-frame">
          <button
            type="button"
            className="icon-button large drawer-close"
            aria-label="Close menu"
            onClick={() => drawer.current?.close()}
          >
            <Icon name="close" size={20} />
          </button>
          <Sidebar area={area} onSearch={search} />
        </div>
      </dialog>
      {searching && <CommandPalette onClose={() => setSearching(false)} />}
    </>
  );
}

/**
 * The area (organization or operator) to which the page belongs. On pages that belong to both areas, such as the
 * profile, the previous area stays selected.
 */
function useArea(location: string): Area {
  const [last, setLast] = useState<Area>(areaOf(location) ?? 'organization');
  const area = areaOf(location) ?? last;
  if (area !== last) setLast(area);
  return area;
}

function Sidebar({ area, onSearch }: { area: Area; onSearch: () => void }): ReactNode {
  const { organization } = useSession();
  const { user } = useMe();
  const [location] = useLocation();
  const isOperatorArea = area === 'operator' && user.operator;
  return (
    <>
      <Link href="/" className="brand" aria-label="Monolith, overview">
        <Wordmark />
      </Link>
      {user.operator && <AreaSwitch area={area} />}
      {!isOperatorArea && <OrganizationSwitcher />}
      <button type="button" className="search-button" aria-keyshortcuts="Control+K Meta+K" onClick={onSearch}>
        <Icon name="search" /> Search
        <kbd aria-hidden="true">{paletteKey()}</kbd>
      </button>
      <nav className="pages" aria-label="Pages">
        {NAVIGATION.filter(({ operator }) => (operator === true) === isOperatorArea).map((group) => {
          const items = group.items.filter(
            ({ role }) =>
              isOperatorArea || (organization !== null && (role === undefined || atLeast(organization.role, role))),
          );
          return items.length === 0 ? null : (
            <div key={group.label} className="nav-group">
              <h2>{group.label}</h2>
              <ul>
                {items.map(({ path, label, icon }) => (
                  <li key={path}>
                    <Link href={path} aria-current={location === path ? 'page' : undefined}>
                      <Icon name={icon} size={18} />
                      {label}
                    </Link>
                  </li>
                ))}
              </ul>
            </div>
          );
        })}
      </nav>
      <UserCorner />
    </>
  );
}

/**
 * Switches operators between the organization's pages and the server's. Each link opens the page last visited in that
 * area.
 */
function AreaSwitch({ area }: { area: Area }): ReactNode {
  const [location] = useLocation();
  const last = useRef<Record<Area, string>>({ organization: '/', operator: '/operator/live' });
  const own = areaOf(location);
  if (own !== null) last.current[own] = location;
  return (
    <nav className="area-switch" aria-label="Area">
      {(
        [
          ['organization', 'Organization'],
          ['operator', 'Operator'],
        ] as const
      ).map(([value, label]) => (
        <Link key={value} href={last.current[value]} aria-current={area === value ? 'true' : undefined}>
          {label}
        </Link>
      ))}
    </nav>
  );
}

function UserCorner(): ReactNode {
  const { signOut } = useSession();
  const { user } = useMe();
  const toast = useToast();
  const [location, navigate] = useLocation();
  const leave = (): void => {
    signOut().then(
      () => navigate('/signin'),
      (error: unknown) => toast(messageOf(error)),
    );
  };
  return (
    <div className="user-corner">
      <ThemeSwitch />
      <div className="user-row">
        <Link href="/profile" className="user-link" aria-current={location === '/profile' ? 'page' : undefined}>
          <span className="avatar" aria-hidden="true">
            {(user.name || user.email).slice(0, 1).toUpperCase()}
          </span>
          <span className="user-names">
            <span>{user.name || user.email}</span>
            <span className="hint">{user.name === '' ? 'Profile' : user.email}</span>
          </span>
        </Link>
        <button type="button" className="icon-button" aria-label="Sign out" title="Sign out" onClick={leave}>
          <Icon name="exit" />
        </button>
      </div>
    </div>
  );
}

export function ThemeSwitch(): ReactNode {
  const [theme, setTheme] = useState<Theme>(readTheme);
  return (
    <Segmented<Theme>
      label="Theme"
      value={theme}
      onChange={(next) => {
        chooseTheme(next);
        setTheme(next);
      }}
      options={[
        { value: 'system', label: <Icon name="system" />, name: 'System' },
        { value: 'light', label: <Icon name="sun" />, name: 'Light' },
        { value: 'dark', label: <Icon name="moon" />, name: 'Dark' },
      ]}
    />
  );
}

/** Page layout for sign-in, sign-up and other pages without a session. */
export function SignedOutFrame({
  title,
  lead,
  children,
  foot,
}: {
  title: string;
  lead?: ReactNode;
  children: ReactNode;
  foot?: ReactNode;
}): ReactNode {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${title} · Monolith`;
  }, [title]);
  return (
    <main className="signed-out">
      <div className="signed-out-box">
        <Wordmark />
        <h1 ref={heading} tabIndex={-1}>
          {title}
        </h1>
        {lead !== undefined && <div className="page-lead">{lead}</div>}
        {children}
        {foot !== undefined && <div className="signed-out-foot">{foot}</div>}
      </div>
      <ThemeSwitch />
    </main>
  );
}

/** The logo. */
function Mark({ size = 24 }: { size?: number }): ReactNode {
  return (
    <svg className="mark" width={size} height={size} viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <path fill="currentColor" d="M6.500 2h7v20h-7z" />
      <path fill="currentColor" opacity=".55" d="M15 4l3 2v14.500l-3 1.500z" />
    </svg>
  );
}

function Wordmark(): ReactNode {
  return (
    <span className="wordmark">
      <Mark />
      <span>Monolith</span>
    </span>
  );
}
