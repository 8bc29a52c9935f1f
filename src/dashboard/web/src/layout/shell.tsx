// Page layout for signed-in users: navigation in a sidebar, or in a drawer on narrow screens.
import { useEffect, useRef, useState } from 'react';
import type { ReactNode } from 'react';
import { Link, useLocation } from 'wouter';
import { useToast } from '../components/toasts.js';
import { Icon } from '../components/icon.js';
import { Segmented } from '../components/tabs.js';
import { messageOf } from '../api.js';
import { NAVIGATION } from '../navigation.js';
import { atLeast } from '../roles.js';
import { useMe, useSession } from '../session.js';
import { chooseTheme, readTheme } from '../theme.js';
import type { Theme } from '../theme.js';
import { BudgetNotice } from './budget-notice.js';
import { OrganizationSwitcher } from './organization-switcher.js';

export function Shell({ children }: { children: ReactNode }): ReactNode {
  const [location] = useLocation();
  const drawer = useRef<HTMLDialogElement>(null);
  useEffect(() => drawer.current?.close(), [location]);
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
          <Sidebar />
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
          <Sidebar />
        </div>
      </dialog>
    </>
  );
}

function Sidebar(): ReactNode {
  const { organization } = useSession();
  const { user } = useMe();
  const [location] = useLocation();
  return (
    <>
      <Link href="/" className="brand" aria-label="Monolith, overview">
        <Wordmark />
      </Link>
      <OrganizationSwitcher />
      <nav aria-label="Pages">
        {NAVIGATION.filter(({ operator }) => operator !== true || user.operator).map((group) => {
          const items = group.items.filter(
            ({ role }) =>
              group.operator === true ||
              (organization !== null && (role === undefined || atLeast(organization.role, role))),
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
