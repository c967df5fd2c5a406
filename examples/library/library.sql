-- A library's members and loans. Everyone in it is invented.
CREATE TABLE books (title VARCHAR PRIMARY KEY, genre VARCHAR);
INSERT INTO books VALUES
    ('Emma', 'novel'), ('Walden', 'essay'), ('Dracula', 'novel'), ('Gitanjali', 'poems'),
    ('Middlemarch', 'novel'), ('Self-Reliance', 'essay'), ('Leaves of Grass', 'poems');

CREATE TABLE members (member_id INTEGER PRIMARY KEY, name VARCHAR, branch VARCHAR);
INSERT INTO members
SELECT i, 'Member ' || i, CASE WHEN i % 17 < 8 THEN 'north' WHEN i % 17 < 13 THEN 'south' ELSE 'east' END
FROM range(20000) AS r(i);

CREATE TABLE loans (member_id INTEGER REFERENCES members, title VARCHAR, day DATE, days_kept INTEGER);
INSERT INTO loans
SELECT member_id, title, DATE '2026-01-01' + (member_id * 13 + len(title))::INTEGER % 180,
       1 + (member_id * 7 + len(title)) % 30
FROM members, books WHERE member_id % len(title) < 3;

CREATE TABLE staff (login VARCHAR, role VARCHAR);
INSERT INTO staff VALUES ('ann', 'analyst');
