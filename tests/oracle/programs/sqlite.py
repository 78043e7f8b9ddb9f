# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""sqlite3: queries, with functions, aggregates and collations in Python."""
import sqlite3


class Sum:
    def __init__(self):
        self.sum = 0

    def step(self, value):
        self.sum += value

    def finalize(self):
        return self.sum


db = sqlite3.connect(":memory:")
db.create_function("pyf", 1, lambda x: (x * 7) % 13)
db.create_aggregate("pysum", 1, Sum)
db.create_collation("rev", lambda a, b: (a < b) - (a > b))
db.execute("create table t(a integer primary key, b, c text)")
db.executemany("insert into t(b, c) values(?, ?)",
               [(i % 17, "x%d" % (i * 7919 % 1000)) for i in range(2000)])

while True:
    db.execute("select pyf(b), count(*), pysum(b) from t group by 1").fetchall()
    db.execute("select c from t order by c collate rev limit 50").fetchall()
    db.execute("select * from t join t u on u.b = t.a where t.c like '%3%' limit 200").fetchall()
    db.executescript("begin; update t set b = b + 1 where a % 3 = 0; rollback;")
